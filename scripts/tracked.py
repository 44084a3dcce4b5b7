"""The files that the scanners of this folder read."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files(given: list[str]) -> list[Path]:
    """All files below the given paths; without paths, what git tracks or would track in this repository."""
    if given:
        absent = [path for path in given if not Path(path).exists()]
        if absent:
            print(f"no such file or folder: {', '.join(absent)}", file=sys.stderr)
            sys.exit(2)
        below = (sorted(path.rglob("*")) if path.is_dir() else [path] for path in map(Path, given))
        return [path for group in below for path in group if path.is_file() and ".git" not in path.parts]
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, stdout=subprocess.PIPE).stdout.decode("utf-8")
    paths = (ROOT / name for name in sorted(set(listed.split("\0"))) if name)
    return [path for path in paths if path.is_file()]


def shown(path: Path) -> str:
    """The path as people write it: relative to the repository where possible."""
    try:
        return path.resolve().relative_to(ROOT).as_posix()
    except ValueError:
        return path.resolve().as_posix()


def text_of(path: Path) -> str | None:
    """The text of a file; None when it is not text."""
    content = path.read_bytes()
    return None if b"\0" in content[:8192] else content.decode("utf-8", "replace")


def is_test(name: str, line_number: int, text: str) -> bool:
    """True inside a test file, or below `#[cfg(test)]` with a `mod` in a Rust file."""
    parts = name.split("/")
    if "tests" in parts[:-1] or "fixtures" in parts[:-1] or parts[-1].endswith(("tests.rs", "_test.rs")):
        return True
    if not name.endswith(".rs"):
        return False
    above = text.splitlines()[:line_number]
    return any(line.strip() == "#[cfg(test)]" and index + 1 < len(above) and above[index + 1].lstrip().startswith("mod ")
               and above[index + 1].rstrip().endswith("{") for index, line in enumerate(above))
