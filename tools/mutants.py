#!/usr/bin/env python3
"""Which test catches which fault: builds every mutant of tools/mutants.toml at once, and runs the tests on each.

    tools/mutants.py --check          every mutant still fits the source, and the table in docs is of this list
    tools/mutants.py                  build, run all, print, and write the table in docs/mutants.md
    tools/mutants.py NAME...          only these; their rows of the table are written, the others stay
    tools/mutants.py --named NAME...  the same with only those tests that the list names for them, which builds faster

A mutant is a change of a line or two that makes the model wrong. All are built into one copy of the source, each
inside `if mutant(n) { mutated } else { original }`; the variable LOITER_MUTANT says which one a process has. So the
workspace is built once. (cargo-mutants makes its own mutants, by syntax, and builds the workspace for each; what is
wanted here is a fixed list of faults of the model.)

First the tests run that ought to catch the mutant (`tests` of its entry). If they do not, all others do, golden runs
last: those see that something changed, not that it is wrong, so a mutant that only they catch counts as not caught by
a reasoned test.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "mutants.toml"
DOCUMENT = ROOT / "docs" / "mutants.md"
WORK = ROOT / "build" / "mutants"
STORE = WORK / "outcomes.json"
# What the tests of a copy need beside the crates.
COPIED = ["Cargo.toml", "Cargo.lock", "crates", "machines"]
LINKED = ["guests", "python", "reference", "tests", "docs", "tools", "locks"]
VARIABLE = "LOITER_MUTANT"
GOLDEN = "golden::"
# Share of mutants that reasoned tests have to catch.
ENOUGH = 0.95
FEWEST = 60

SWITCH = f"""
/// Whether this process has mutant `n`.
#[doc(hidden)]
#[inline(always)]
pub(crate) fn mutant(n: u32) -> bool {{
    static CHOSEN: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {{
        let chosen = std::env::var("{VARIABLE}").ok();
        chosen.and_then(|chosen| chosen.parse().ok()).unwrap_or(0)
    }});
    *CHOSEN == n
}}
"""


class Wrong(Exception):
    """The list does not fit the source, or a run cannot say anything."""


@dataclass
class Mutant:
    """One entry of the list."""

    number: int
    name: str
    group: str
    file: str
    was: str
    becomes: str
    fault: str
    tests: list[str]
    # Text that holds `was`, where that alone occurs more than once.
    within: str
    # Why no reasoned test catches it.
    reason: str

    @property
    def digest(self) -> str:
        """Of all that says what it is and where it is looked for."""
        parts = [self.file, self.within, self.was, self.becomes, *self.tests]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def crate(self) -> str:
        """Folder of its crate."""
        return self.file.split("/")[1]

    def find(self, source: str) -> tuple[int, int]:
        """Where the original stands in the source."""
        outer = self.within or self.was
        for text, inside in [(outer, source), (self.was, outer)]:
            if inside.count(text) != 1:
                place = "the source" if inside is source else "its context"
                raise Wrong(f"{self.name}: stands {inside.count(text)} times in {place} ({self.file}): {text.strip()}")
        start = source.index(outer) + outer.index(self.was)
        return start, start + len(self.was)


@dataclass
class Outcome:
    """What became of a mutant."""

    digest: str
    # Tests that failed, `binary name`; empty for a survivor.
    caught_by: list[str] = field(default_factory=list)
    # "failed", "timed out", "died", or "survived".
    how: str = "survived"
    expected: bool = False
    seconds: float = 0.0

    @property
    def golden_only(self) -> bool:
        """Nothing but a golden run saw it."""
        return bool(self.caught_by) and all(GOLDEN in test for test in self.caught_by)


def read_list() -> list[Mutant]:
    """The entries, numbered from 1."""
    entries = tomlkit.parse(LIST.read_text(encoding="utf-8")).unwrap()["mutant"]
    mutants = [
        Mutant(
            number=number,
            name=entry["name"],
            group=entry["group"],
            file=entry["file"],
            was=entry["was"],
            becomes=entry["becomes"],
            fault=entry["fault"],
            tests=list(entry["tests"]),
            within=entry.get("within", ""),
            reason=entry.get("reason", ""),
        )
        for number, entry in enumerate(entries, 1)
    ]
    names = [mutant.name for mutant in mutants]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Wrong(f"twice in the list: {', '.join(sorted(twice))}")
    if len(mutants) < FEWEST:
        raise Wrong(f"{len(mutants)} mutants; at least {FEWEST} are wanted")
    silent = [mutant.name for mutant in mutants if not mutant.tests]
    if silent:
        raise Wrong(f"no test is named for {', '.join(silent)}")
    return mutants


def switched(source: str, mutants: list[Mutant]) -> str:
    """The source of a file with all of its mutants, each with its switch."""
    spans: dict[tuple[int, int], list[Mutant]] = {}
    for mutant in mutants:
        spans.setdefault(mutant.find(source), []).append(mutant)
    ends = sorted(spans)
    for (_, end), (start, _) in itertools.pairwise(ends):
        if start < end:
            raise Wrong(f"{mutants[0].file}: mutants overlap near {source[start : start + 40]!r}")
    for (start, end), here in sorted(spans.items(), reverse=True):
        source = source[:start] + choice(source[start:end], here) + source[end:]
    return source


def choice(original: str, mutants: list[Mutant]) -> str:
    """`original`, an expression or whole statements, or what the chosen mutant has instead."""
    arms = "".join(f"if crate::mutant({m.number}) {{ {m.becomes} }} else " for m in mutants)
    code = f"{arms}{{ {original} }}"
    statement = original.rstrip().endswith((";", "}"))
    return code if statement else f"({code})"


def check(mutants: list[Mutant]) -> None:
    """Every original stands in the source once, and the table is of this list."""
    for file in sorted({mutant.file for mutant in mutants}):
        source = (ROOT / file).read_text(encoding="utf-8")
        switched(source, [mutant for mutant in mutants if mutant.file == file])
    rows = set(re.findall(r"^\| `([^`]+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE))
    names = {mutant.name for mutant in mutants}
    if rows != names:
        differ = ", ".join(sorted(rows ^ names)[:5])
        raise Wrong(f"{DOCUMENT.relative_to(ROOT)} is not of this list; run `make mutants`: {differ} ...")


def copy_tree(mutants: list[Mutant]) -> Path:
    """A copy of the workspace that holds all mutants. Files that stay the same keep their time and stay built."""
    tree = WORK / "tree"
    wanted: dict[Path, bytes] = {}
    for name in COPIED:
        path = ROOT / name
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        wanted |= {file.relative_to(ROOT): file.read_bytes() for file in files}
    for file in {mutant.file for mutant in mutants}:
        source = wanted[Path(file)].decode()
        here = [mutant for mutant in mutants if mutant.file == file]
        wanted[Path(file)] = switched(source, here).encode()
    for crate in {mutant.crate for mutant in mutants}:
        wanted[Path("crates", crate, "src", "lib.rs")] += SWITCH.encode()
    for old in [file for file in tree.rglob("*") if file.is_file() and not file.is_symlink()]:
        if old.relative_to(tree) not in wanted and not any(parent.is_symlink() for parent in old.parents):
            old.unlink()
    for file_name, content in wanted.items():
        new = tree / file_name
        new.parent.mkdir(parents=True, exist_ok=True)
        if not new.exists() or new.read_bytes() != content:
            new.write_bytes(content)
    for linked in LINKED:
        link = tree / linked
        if (ROOT / linked).exists() and not link.is_symlink():
            link.symlink_to(ROOT / linked)
    return tree


def package(tree: Path, program: str) -> Path:
    """The folder of the crate that a test program is of, in which it runs."""
    crates = tree / "crates"
    of_crate = [test.parents[1] for test in crates.glob(f"*/tests/{program}")]
    found = [crates / program] if (crates / program).is_dir() else of_crate
    if len(found) != 1:
        raise Wrong(f"test program {program}: {len(found)} crates have it")
    return found[0]


def build(tree: Path, named: set[str] | None) -> dict[str, Path]:
    """Builds all tests, or those of the `named` programs; the programs by name: `hart` for the unit tests of a crate,
    `analytic` for others."""
    env = dict(os.environ)
    # Cargo takes crates of the copy for those of the checkout, so they must not have one folder.
    env["CARGO_TARGET_DIR"] = str(WORK / "target")
    env["CARGO_PROFILE_CHECKED_DEBUG"] = "0"
    command = ["cargo", "test", "--profile", "checked", "--lib", "--tests", "--no-run", "--message-format=json"]
    if named is None:
        command += ["--workspace", "--exclude", "loiter-python"]
    else:
        crates = {package(tree, name).name for name in named}
        command += [word for crate in sorted(crates) for word in ("--package", f"loiter-{crate}")]
    result = subprocess.run(command, cwd=tree, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        messages = [json.loads(line) for line in result.stdout.splitlines()]
        errors = [m["message"]["rendered"] for m in messages if m.get("message", {}).get("level") == "error"]
        raise Wrong("the mutants do not build\n" + "\n".join(errors))
    programs: dict[str, Path] = {}
    for line in result.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            name = message["target"]["name"].removeprefix("loiter_")
            programs[name] = Path(message["executable"])
    return programs


class Runner:
    """Runs tests of the built copy."""

    def __init__(self, tree: Path, programs: dict[str, Path]) -> None:
        self.tree = tree
        self.programs = programs
        # Seconds that a selection of tests takes without a mutant.
        self.healthy: dict[str, float] = {}

    def run(self, mutant: int, selection: str, limit: float) -> tuple[str, list[str], int]:
        """Runs the tests of `selection`: a program, filters, and `-filter` for what is left out. Returns what
        happened, who failed, and how many tests ran."""
        binary, *words = selection.split()
        if binary not in self.programs:
            raise Wrong(f"no test program {binary}; there are {', '.join(sorted(self.programs))}")
        command = [str(self.programs[binary])]
        for word in words:
            command += ["--skip", word[1:]] if word.startswith("-") else [word]
        with subprocess.Popen(
            command,
            cwd=package(self.tree, binary),
            env=os.environ | {VARIABLE: str(mutant), "RUST_BACKTRACE": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                ended = set(re.findall(r"^test (\S+) ", output, re.MULTILINE))
                failed = re.findall(r"^test (\S+) .*FAILED$", output, re.MULTILINE)
                return "timed out", [f"{binary} {name}" for name in failed] or [selection], len(ended)
        failed = re.findall(r"^test (\S+) .*FAILED$", output, re.MULTILINE)
        ran = len(re.findall(r"^test \S+ .*(?:ok|FAILED)$", output, re.MULTILINE))
        if process.returncode == 0:
            return "survived", [], ran
        if not failed:
            return "died", [selection], ran
        return "failed", [f"{binary} {name}" for name in failed], ran

    def baseline(self, selections: list[str]) -> None:
        """Without a mutant all tests have to pass, and every selection has to name some."""
        for selection in selections:
            begun = time.monotonic()
            how, failed, ran = self.run(0, selection, 3600)
            self.healthy[selection] = time.monotonic() - begun
            if how != "survived":
                raise Wrong(f"without a mutant, {selection} {how}: {', '.join(failed)}")
            if ran == 0:
                raise Wrong(f"{selection} names no test")
            print(f"  {self.healthy[selection]:6.1f} s {ran:4} tests  {selection}", flush=True)

    def try_on(self, mutant: Mutant, ladder: list[str]) -> Outcome:
        """Runs the tests that ought to catch `mutant`, and all others only if they do not."""
        begun = time.monotonic()
        outcome = Outcome(mutant.digest)
        for selection in mutant.tests + ladder:
            limit = 60 + 10 * self.healthy[selection]
            outcome.how, outcome.caught_by, _ = self.run(mutant.number, selection, limit)
            if outcome.caught_by:
                outcome.expected = selection in mutant.tests
                break
        outcome.seconds = round(time.monotonic() - begun, 1)
        return outcome


def full_ladder(programs: dict[str, Path]) -> list[str]:
    """All tests, cheapest first, golden runs last."""
    last = ["analytic", "architecture"]
    units = sorted(name for name in programs if name not in last)
    return [*units, "analytic", f"architecture -{GOLDEN}", f"architecture {GOLDEN}"]


def earlier(mutants: list[Mutant]) -> dict[str, Outcome]:
    """Outcomes of earlier runs, of mutants that are the same."""
    if not STORE.exists():
        return {}
    digests = {mutant.name: mutant.digest for mutant in mutants}
    stored: dict[str, Any] = json.loads(STORE.read_text(encoding="utf-8"))
    return {name: Outcome(**it) for name, it in stored.items() if digests.get(name) == it["digest"]}


def run(mutants: list[Mutant], chosen: list[Mutant], resume: bool, named: bool) -> dict[str, Outcome]:
    """Builds, and runs the tests on each of `chosen`; with `named`, only those that the list names for it."""
    tree = copy_tree(mutants)
    programs = build(tree, {test.split()[0] for mutant in chosen for test in mutant.tests} if named else None)
    runner = Runner(tree, programs)
    done = earlier(mutants)
    chosen = [mutant for mutant in chosen if not resume or mutant.name not in done]
    print("without a mutant")
    runner.baseline(sorted({test for mutant in chosen for test in mutant.tests}))
    ladder = full_ladder(programs)
    for mutant in chosen:
        outcome = Outcome(mutant.digest)
        outcome = runner.try_on(mutant, [])
        if not outcome.caught_by and not named:
            runner.baseline([step for step in ladder if step not in runner.healthy])
            outcome = runner.try_on(mutant, ladder)
        done[mutant.name] = outcome
        who = ", ".join(outcome.caught_by[:3])
        print(f"{mutant.name}: {outcome.how} ({outcome.seconds} s) {who}", flush=True)
        STORE.write_text(json.dumps({name: it.__dict__ for name, it in done.items()}, indent=1), encoding="utf-8")
    return done


def table(mutants: list[Mutant], outcomes: dict[str, Outcome]) -> str:
    """The page: of mutants without an outcome, what it has of them."""
    caught = recorded(mutants) | {
        mutant.name: verdict(mutant, outcomes[mutant.name]) for mutant in mutants if mutant.name in outcomes
    }
    lines = [
        "# Mutants: which test catches which fault",
        "",
        "Written by `make mutants` (tools/mutants.py) from the list tools/mutants.toml. Each row is a fault put into",
        "the source, a line or two, and the first tests that failed with it. The tests named in the list run first;",
        "all others only if those do not fail. Golden runs see that something changed, not that it is wrong: what only",
        "they catch counts as not caught by a reasoned test. *Timed out*: the tests did not end within a minute and",
        "ten times their usual time.",
        "",
        totals(mutants, caught),
        "",
    ]
    for group in dict.fromkeys(mutant.group for mutant in mutants):
        lines += [f"## {group}", "", "| Mutant | File | Fault | Caught by |", "|---|---|---|---|"]
        for mutant in mutants:
            if mutant.group == group:
                lines.append(f"{row_begins(mutant)} {caught.get(mutant.name, '**not run**')} |")
        lines.append("")
    return "\n".join(lines)


def row_begins(mutant: Mutant) -> str:
    """What the list says of a row."""
    file = mutant.file.removeprefix("crates/").replace("/src/", "/")
    return f"| `{mutant.name}` | {file} | {mutant.fault} |"


def recorded(mutants: list[Mutant]) -> dict[str, str]:
    """What the page has of mutants that are still the same."""
    rows = DOCUMENT.read_text(encoding="utf-8").splitlines() if DOCUMENT.exists() else []
    found = {}
    for mutant in mutants:
        begins = row_begins(mutant)
        for row in rows:
            if row.startswith(begins) and "**not run**" not in row:
                found[mutant.name] = row[len(begins) :].removesuffix("|").strip()
    return found


def verdict(mutant: Mutant, outcome: Outcome) -> str:
    """Who caught it, in the table's words."""
    if not outcome.caught_by:
        return f"**survived**: {mutant.reason or 'not explained'}"
    more = len(outcome.caught_by) - 2
    names = ", ".join(f"`{test}`" for test in outcome.caught_by[:2])
    text = names + (f" and {more} more" if more > 0 else "")
    if outcome.golden_only:
        text = f"**golden only**: {text}. {mutant.reason or 'Not explained'}"
    return text if outcome.how == "failed" else f"{text} ({outcome.how})"


def reasoned(outcomes: dict[str, Outcome]) -> int:
    """How many a reasoned test caught."""
    return sum(bool(outcome.caught_by) and not outcome.golden_only for outcome in outcomes.values())


def totals(mutants: list[Mutant], caught: dict[str, str]) -> str:
    """One line, from the cells of the table."""
    golden = sum(cell.startswith("**golden only**") for cell in caught.values())
    survived = sum(cell.startswith("**survived**") for cell in caught.values())
    timed_out = sum(cell.endswith("(timed out)") for cell in caught.values())
    count = len(caught) - golden - survived
    missing = len(mutants) - len(caught)
    return (
        f"{len(mutants)} mutants: {count} caught by reasoned tests ({count / len(mutants):.0%}), "
        f"of them {timed_out} by a time-out; {golden} by golden runs only; {survived} survived."
        + (f" {missing} have not been run." if missing else "")
    )


def conclude(mutants: list[Mutant], outcomes: dict[str, Outcome]) -> int:
    """Prints what is missing; returns the exit code."""
    print(totals(mutants, {m.name: verdict(m, outcomes[m.name]) for m in mutants if m.name in outcomes}))
    code = 0
    for mutant in mutants:
        if mutant.name not in outcomes:
            print(f"{mutant.name}: not run", file=sys.stderr)
            code = 1
            continue
        outcome = outcomes[mutant.name]
        if (not outcome.caught_by or outcome.golden_only) and not mutant.reason:
            print(f"{mutant.name}: no reasoned test catches it, and no reason is given", file=sys.stderr)
            code = 1
        elif outcome.caught_by and not outcome.expected:
            print(f"{mutant.name}: caught, but not by the tests that are named for it", file=sys.stderr)
    if reasoned(outcomes) < ENOUGH * len(mutants):
        print(f"reasoned tests catch less than {ENOUGH:.0%}", file=sys.stderr)
        code = 1
    return code


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to run; without any, all")
    parser.add_argument("--check", action="store_true", help="only see whether list, source and table fit")
    parser.add_argument(
        "--resume", action="store_true", help="keep the outcomes of the last run whose mutants are the same"
    )
    parser.add_argument("--named", action="store_true", help="run only the tests that the list names for each mutant")
    parser.add_argument("--table", action="store_true", help="only write the table, of what has been run")
    parser.add_argument("--clean", action="store_true", help="build anew")
    options = parser.parse_args()
    try:
        mutants = read_list()
        if options.check:
            check(mutants)
            return 0
        if options.table:
            DOCUMENT.write_text(table(mutants, earlier(mutants)), encoding="utf-8")
            return conclude(mutants, earlier(mutants))
        if options.clean:
            shutil.rmtree(WORK, ignore_errors=True)
        unknown = set(options.names) - {mutant.name for mutant in mutants}
        if unknown:
            raise Wrong(f"no mutant {', '.join(sorted(unknown))}")
        chosen = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
        outcomes = run(mutants, chosen, options.resume, options.named)
        if options.names:
            DOCUMENT.write_text(table(mutants, outcomes), encoding="utf-8")
            return 0 if all(outcomes[mutant.name].caught_by for mutant in chosen) else 1
        DOCUMENT.write_text(table(mutants, outcomes), encoding="utf-8")
        return conclude(mutants, outcomes)
    except Wrong as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
