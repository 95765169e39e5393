# The image that measures, judges and publishes. By default it stands on a vLLM image, so that the engine and its CUDA
# libraries are the ones a deployment would use; servegate and lm-eval live beside them in an environment of their own,
# because vLLM's pins must never meet ours.
#
#   docker build --tag servegate .
#   docker build --tag servegate:judge --build-arg BASE_IMAGE=python:3.12-slim .      no engine: compare, report, publish
#
# The base must have Python 3.11 or newer as python3, with venv. An engine upgrade is gated by building once on each.

# vLLM 0.25.1 for x86_64 and arm64; the digest is the multi-platform index of that tag. Pin your own with --build-arg.
ARG BASE_IMAGE=vllm/vllm-openai:v0.25.1@sha256:e4f88a835143cd22aee2397a26ec6bb80b3a4a6fe0c882bcbc63822904766089
FROM ${BASE_IMAGE}

# Where packages come from, when it is not the index that pip knows: a folder of wheels mounted into the build.
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONDONTWRITEBYTECODE=1

# `servegate pairs` asks git what a pull request changes. Empty: none is installed, for an image that only judges. Its
# version is the base's own.
ARG GIT_PACKAGE=git
# hadolint ignore=DL3008
RUN if [ -n "${GIT_PACKAGE}" ] && ! command -v git; then \
      apt-get update && apt-get install --yes --no-install-recommends "${GIT_PACKAGE}" && rm -rf /var/lib/apt/lists/*; fi

WORKDIR /opt/servegate/source
COPY requirements/core.txt requirements/eval.txt ./requirements/
# Plain Python images come without compiled standard library, and nobody can write one on a read-only root.
RUN python3 -m compileall -q -x '/(lib2to3|tests?|(dist|site)-packages)/' \
      "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
 && python3 -m venv /opt/servegate/venv \
 && /opt/servegate/venv/bin/python -m pip install --requirement requirements/core.txt --requirement requirements/eval.txt

COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY templates ./templates
COPY src ./src
RUN /opt/servegate/venv/bin/python -m pip install --no-deps . \
 && ln -s /opt/servegate/venv/bin/servegate /usr/local/bin/servegate

# Nothing below needs root, a home in /etc/passwd or a writable file system: everything that is written goes to /cache
# (models and compiled kernels; mount a volume), /output (run directories; mount a folder) and /tmp (mount a tmpfs).
RUN mkdir --mode=0777 /cache /output
ENV HOME=/cache \
    HF_HOME=/cache/huggingface \
    LOGNAME=servegate \
    MPLCONFIGDIR=/tmp/matplotlib \
    PATH="${PATH}:/opt/servegate/venv/bin" \
    USER=servegate
WORKDIR /output
USER 10001:10001

LABEL org.opencontainers.image.title="servegate" \
      org.opencontainers.image.description="A gate for changes to how a language model is served." \
      org.opencontainers.image.licenses="Apache-2.0"

ENTRYPOINT ["servegate"]
CMD ["--help"]
