"""What all tables in the terminal have in common."""

from __future__ import annotations

from rich import box
from rich.table import Table


def headed(title: str = "") -> Table:
    """An empty table whose columns have headings. Columns lie close, so that more of them fit a terminal of 80."""
    return Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
