"""reveal.js, which shows the slides: the files of its npm package that a deck holds.

    python docs/reveal.py build/reveal

Slides load nothing from a network, so their HTML holds these files.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE, VERSION = "reveal.js", "6.0.2"  # MIT licence
SHA256 = "2f0c20bfb02447a198a1ebe8a8c097a5437d035caa38f2820bf4ba887a3eac91"  # of its archive
FILES = (
    "dist/reset.css",
    "dist/reveal.css",
    "dist/reveal.js",
    "dist/plugin/notes.js",
    "dist/plugin/zoom.js",
    "LICENSE",
)


def fetch(folder: Path) -> None:
    """Write the files to a folder.

    Raises:
        SystemExit: npm is missing or fails, or the archive is not the one that was reviewed.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(f"slides need npm, which fetches {PACKAGE} {VERSION}: install Node.js")
    with tempfile.TemporaryDirectory() as temporary:
        command = [npm, "pack", "--silent", f"{PACKAGE}@{VERSION}"]
        run = subprocess.run(command, cwd=temporary, capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{run.stderr.strip()}")
        (archive,) = Path(temporary).glob("*.tgz")
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != SHA256:
            raise SystemExit(f"{archive.name} has the SHA-256 {digest}, and {SHA256} is expected")
        texts = {}
        with tarfile.open(archive) as tar:
            for name in FILES:
                member = tar.extractfile(f"package/{name}")
                assert member is not None
                texts[Path(name).name] = member.read()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_bytes(text)


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
