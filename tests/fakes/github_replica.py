"""A stateful replica of GitHub's REST API for tests: PyPI `myworld` plus the few operations that it lacks.

Real PyGithub talks to it as `api.github.com`, through the TLS-terminating proxy that it opens. `tests/fakes/github.py` starts,
seeds and stops it; by hand:

    python tests/fakes/github_replica.py serve --host 127.0.0.1 --port 8765 --gateway 8766 --no-passthrough --ca-dir DIR
    curl -s -X POST 127.0.0.1:8765/envs -H 'content-type: application/json' -d @tests/fakes/github_seed.json
    HTTPS_PROXY=http://127.0.0.1:8766 REQUESTS_CA_BUNDLE=DIR/myworld-ca.pem python ...     # token: .credentials.*.github_token

    curl 127.0.0.1:8765/instances/gate-github/state      also /calls; POST /envs/gate/reset starts over
    PUT /instances/gate-github/faults  [{"kind": "timeout_after_commit", "tool": "github.issues.createComment", "on_call": 1}]

The additions lean on private names of myworld 0.2.1, which requirements/dev.in therefore pins, and follow GitHub's documented
replies for "Get / Update / Delete an issue comment" and "Create / Update a check run" (docs.github.com/rest, API 2022-11-28).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from myworld import api as core
from myworld.api import Response
from myworld.cli import main
from myworld.services.github import api, issues, model, pulls

Json = dict[str, Any]
ONE_COMMENT = "/repos/{owner}/{repo}/issues/comments/{comment}"
CHECK_RUNS = "/repos/{owner}/{repo}/check-runs"
FIRST_CHECK_RUN_ID = 60_000_000_000
REPOSITORY_ID = 7


def with_links() -> None:
    """Add the URLs that PyGithub follows from a comment and from a pull request, and that the replica leaves out."""
    plain_comment: Callable[..., Json] = model._comment_json
    plain_pull: Callable[..., Json] = model._pr_json

    def comment_json(state: Any, repo: Json, number: Any, comment: Json) -> Json:
        url = f"{_url(repo)}/issues/comments/{comment['id']}"
        plain = plain_comment(state, repo, number, comment)
        return {**plain, "url": url, "performed_via_github_app": None}

    def pull_json(state: Any, repo: Json, pull: Json) -> Json:
        issue = f"{_url(repo)}/issues/{pull['number']}"
        links = {"issue_url": issue, "comments_url": f"{issue}/comments", "statuses_url": f"{_url(repo)}/statuses"}
        plain = plain_pull(state, repo, pull)
        sides = {
            side: {**plain[side], "repo": {"full_name": repo["full_name"], "id": REPOSITORY_ID}} for side in ("head", "base")
        }
        return {**plain, **links, **sides}

    # Each module imported the functions by name, so each holds its own reference.
    for module in (model, issues, api, pulls):
        if hasattr(module, "_comment_json"):
            module._comment_json = comment_json
        if hasattr(module, "_pr_json"):
            module._pr_json = pull_json


with_links()


@api.op("github.issues.getComment", "GET", ONE_COMMENT, read_only=True, service="github")
def get_comment(ctx: Any, request: Any) -> Json:
    repo, number, comment = _comment(ctx, request)
    return model._comment_json(ctx.state, repo, number, comment)


@api.op("github.issues.updateComment", "PATCH", ONE_COMMENT, service="github")
def update_comment(ctx: Any, request: Any) -> Json:
    repo, number, comment = _comment(ctx, request)
    body = api._json_args(request).get("body")
    if not body:
        problem = {"resource": "IssueComment", "field": "body", "code": "missing_field"}
        raise model._unprocessable("Validation Failed", [problem])
    comment.update(body=body, updated_at=model._iso(ctx))
    return model._comment_json(ctx.state, repo, number, comment)


@api.op("github.issues.deleteComment", "DELETE", ONE_COMMENT, destructive=True, service="github")
def delete_comment(ctx: Any, request: Any) -> Response:
    repo, number, comment = _comment(ctx, request)
    repo["comments"][number].remove(comment)
    repo["issues"][number]["comments"] -= 1
    return Response(204, None)


@api.op("github.checks.create", "POST", CHECK_RUNS, service="github")
def create_check_run(ctx: Any, request: Any) -> Response:
    repo, given = api._r(ctx, request), api._json_args(request)
    if given.get("head_sha") not in repo["commits"]:
        raise model._unprocessable(f"No commit found for SHA: {given.get('head_sha')}")
    check = {**given, "id": ctx.next("check_id", FIRST_CHECK_RUN_ID)}
    repo.setdefault("check_runs", {})[check["id"]] = check
    return Response(201, _check_json(repo, check))


@api.op("github.checks.update", "PATCH", CHECK_RUNS + "/{check}", service="github")
def update_check_run(ctx: Any, request: Any) -> Json:
    repo = api._r(ctx, request)
    check = repo.get("check_runs", {}).get(int(request.params["check"]))
    if check is None:
        raise model._not_found()
    check.update(api._json_args(request))
    return _check_json(repo, check)


@api.op("github.checks.listForRef", "GET", "/repos/{owner}/{repo}/commits/{ref}/check-runs", read_only=True, service="github")
def list_check_runs(ctx: Any, request: Any) -> Json:
    repo = api._r(ctx, request)
    name = request.arg("check_name")
    found = [
        _check_json(repo, check)
        for check in repo.get("check_runs", {}).values()
        if check["head_sha"] == request.params["ref"] and name in (None, check["name"])
    ]
    return {"total_count": len(found), "check_runs": found}


REACTIONS = ONE_COMMENT + "/reactions"
ARTIFACTS = "/repos/{owner}/{repo}/actions/artifacts"
STORE = Path(os.environ.get("REPLICA_ARTIFACTS", "/nowhere"))
"""Uploaded archives: `<id>-<head sha>.zip`, of the artifact `servegate-run`."""


@api.op("github.reactions.createForIssueComment", "POST", REACTIONS, service="github")
def create_reaction(ctx: Any, request: Any) -> Response:
    _, _, comment = _comment(ctx, request)
    content = api._json_args(request).get("content")
    if content not in ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"):
        raise model._unprocessable("Validation Failed", [{"resource": "Reaction", "field": "content", "code": "invalid"}])
    comment.setdefault("reactions", []).append(content)
    return Response(201, {"id": len(comment["reactions"]), "content": content, "user": {"login": "bot"}})


@api.op("github.repos.addCollaborator", "PUT", "/repos/{owner}/{repo}/collaborators/{user}", service="github")
def add_collaborator(ctx: Any, request: Any) -> Response:
    repo = api._r(ctx, request)
    repo.setdefault("permissions", {})[request.params["user"]] = api._json_args(request).get("permission", "push")
    return Response(204, None)


@api.op(
    "github.repos.getCollaboratorPermissionLevel", "GET", "/repos/{owner}/{repo}/collaborators/{user}/permission",
    read_only=True, service="github",
)  # fmt: skip
def permission(ctx: Any, request: Any) -> Json:
    user = request.params["user"]
    given = api._r(ctx, request).get("permissions", {}).get(user, "pull")
    # GitHub names the permission in two ways: `push` when it is given, `write` when it is asked for.
    return {"permission": {"push": "write", "pull": "read"}.get(given, given), "user": {"login": user}}


@api.op("github.pulls.listCommits", "GET", "/repos/{owner}/{repo}/pulls/{number}/commits", read_only=True, service="github")
def list_commits(ctx: Any, request: Any) -> list[Json]:
    repo = api._r(ctx, request)
    pull = repo["pulls"][int(request.params["number"])]
    return [{"sha": repo["branches"][pull["head"]]}]


@api.op("github.actions.listArtifactsForRepo", "GET", ARTIFACTS, read_only=True, service="github")
def list_artifacts(ctx: Any, request: Any) -> Json:
    repo = api._r(ctx, request)
    found = [_artifact_json(repo, path) for path in sorted(STORE.glob("*.zip"))] if STORE.is_dir() else []
    found = [each for each in found if request.arg("name") in (None, each["name"])]
    return {"total_count": len(found), "artifacts": found}


@api.op("github.actions.downloadArtifact", "GET", ARTIFACTS + "/{artifact}/zip", read_only=True, service="github")
def download_artifact(ctx: Any, request: Any) -> Response:
    """Point to the storage, which is another server and is shown no token."""
    [path] = STORE.glob(f"{int(request.params['artifact'])}-*.zip")
    return Response(302, None, {"location": f"{os.environ['REPLICA_STORAGE']}/{path.name}"})


def _artifact_json(repo: Json, path: Path) -> Json:
    number, _, sha = path.stem.partition("-")
    url = f"{_url(repo)}/actions/artifacts/{number}"
    run = {"id": int(number) * 10, "head_sha": sha, "head_branch": "feat/x", "head_repository_id": REPOSITORY_ID}
    plain = {"id": int(number), "name": "servegate-run", "expired": False, "workflow_run": run}
    return {**plain, "url": url, "archive_download_url": f"{url}/zip"}


# The replica has a list of its own, of jobs; the first operation that matches answers.
core._OPS.insert(0, next(each for each in reversed(core._OPS) if each.id == "github.checks.listForRef"))


def _comment(ctx: Any, request: Any) -> tuple[Json, Any, Json]:
    repo, wanted = api._r(ctx, request), int(request.params["comment"])
    for number, comments in repo["comments"].items():
        for comment in comments:
            if comment["id"] == wanted:
                return repo, number, comment
    raise model._not_found()


def _check_json(repo: Json, check: Json) -> Json:
    links = {
        "url": f"{_url(repo)}/check-runs/{check['id']}",
        "html_url": f"https://github.com/{repo['full_name']}/runs/{check['id']}",
    }
    return {**check, **links, "app": {"slug": "github-actions"}}


def _url(repo: Json) -> str:
    return f"{model.API}/repos/{repo['full_name']}"


if __name__ == "__main__":
    main()
