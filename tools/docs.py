"""``make docs``: write the documents that are generated from the code, draw the pictures, build the site.

Tests fail while a document or a picture is stale.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools import first_minutes, sequence_diagram, state_picture

ROOT = Path(__file__).resolve().parent.parent

# Each module prints its document.
DOCUMENTS = {
    "docs/cli.md": "semel.cli.reference",
    "docs/compatibility.md": "semel.broker.requests.compatibility",
    "docs/configuration.md": "semel.broker.config.config_reference",
    "docs/security-rights.md": "semel.broker.requests.access.rights_reference",
    "docs/design/transaction-states.md": "semel.coordinator.transaction.state_diagram",
}


def main() -> int:
    for path, module in DOCUMENTS.items():
        document = ROOT / path
        written = subprocess.run([sys.executable, "-m", module], check=True, capture_output=True, text=True).stdout
        before = document.read_text() if document.exists() else None
        document.write_text(written)
        print(f"  {path}: {'as it was' if written == before else 'written'}")
    sequence_diagram.main()
    state_picture.main()
    return first_minutes.main() or _build_site()


def _build_site() -> int:
    built = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"], cwd=ROOT)
    if built.returncode == 0:
        print("  the site: .cache/site/index.html")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
