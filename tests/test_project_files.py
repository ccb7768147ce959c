"""Files of the repository that other programs read: workflows, hooks before a commit, the citation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import scopes

ROOT = Path(__file__).parents[1]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_workflows_pin_each_action_by_its_hash() -> None:
    uses = [
        line
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    ]
    assert uses
    assert [use for use in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", use)] == []


def test_each_change_runs_the_whole_check() -> None:
    workflow = text_of(".github/workflows/ci.yml")
    assert "\n  pull_request:\n" in workflow
    assert "      - run: .ci/run\n" in workflow


def test_hooks_before_a_commit_use_the_versions_of_make_check() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))
    versions = set(project["dependency-groups"]["check"])
    lists = re.findall(r"additional_dependencies: \[(.*)\]", text_of(".pre-commit-config.yaml"))
    used = {version for each in lists for version in re.findall(r'"([^"]*)"', each)}
    assert used
    assert used <= versions


def test_the_citation_and_the_changelog_have_the_version_and_its_date() -> None:
    version = re.escape(scopes.__version__)
    citation = re.search(rf"^version: {version}\ndate-released: (.*)$", text_of("CITATION.cff"), re.MULTILINE)
    changelog = re.search(rf"^## {version} \((.*)\)$", text_of("CHANGELOG.md"), re.MULTILINE)
    assert citation
    assert changelog
    assert citation[1] == changelog[1]


def test_each_news_fragment_has_a_kind_that_towncrier_knows() -> None:
    kinds = {
        each["directory"] for each in tomllib.loads(text_of("pyproject.toml"))["tool"]["towncrier"]["type"]
    }
    names = [path.name for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    assert [
        name for name in names if not re.fullmatch(rf"[\w+-]+\.({'|'.join(sorted(kinds))})\.md", name)
    ] == []


def test_the_changelog_takes_new_sections() -> None:
    changelog = text_of("CHANGELOG.md")
    start = tomllib.loads(text_of("pyproject.toml"))["tool"]["towncrier"]["start_string"]
    before, found, after = changelog.partition(start)
    assert found
    assert "\n## " not in before
    assert re.match(r"## \d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)\n", after.lstrip())
