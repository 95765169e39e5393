import pytest

from servegate.text.globs import matches


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("serving/a.yaml", "serving/*.yaml", True),
        ("serving/x/a.yaml", "serving/*.yaml", False),
        ("serving/x/a.yaml", "serving/**/*.yaml", True),
        ("serving/a.yaml", "serving/**/*.yaml", True),
        ("serving/x/y/a.yml", "serving/**", True),
        ("org/m", "org/?", True),
        ("org/a/b", "org/*", False),
        ("org/mx", "org/m", False),
        ("a\nb", "a*", True),
        ("axb", "a.b", False),
        ("[a]", "[a]", True),
    ],
)
def test_what_a_glob_means(name, pattern, expected):
    assert matches(name, pattern) is expected
