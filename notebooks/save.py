"""Runs notebooks again, each in a kernel of its own, and saves their outputs.

python notebooks/save.py                               # all notebooks of this folder
python notebooks/save.py notebooks/03_traces.ipynb     # only these
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

FOLDER = Path(__file__).parent
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
#: The lexer knows that the text of an `%%agent` cell is not Python.
LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"}
WIDGET = "application/vnd.jupyter.widget-view+json"


def client_for(path: Path) -> NotebookClient:
    """Runs the notebook beside its data, and keeps neither times nor the state of widgets, which hides their HTML."""
    return NotebookClient(
        nbformat.read(path, as_version=4),
        timeout=600,
        kernel_name=KERNEL["name"],
        store_widget_state=False,
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
    )


def tidy(notebook: nbformat.NotebookNode, name: str) -> None:
    """Leave out what differs between machines and runs: ids drawn by chance, versions, times, live widgets."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": LANGUAGE})
    notebook.nbformat_minor = 5
    for index, cell in enumerate(notebook.cells):
        cell.id = f"{name.partition('_')[2]}-{index:02}"
        cell.metadata = nbformat.from_dict({"tags": cell.metadata.tags} if cell.metadata.get("tags") else {})
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                output.data.pop(WIDGET, None)


def save(path: Path) -> None:
    """Run the notebook and save it; if a cell fails, the file stays as it is."""
    client = client_for(path)
    client.execute()
    tidy(client.nb, path.stem)
    nbformat.write(client.nb, path)


def main() -> int:
    """The exit status: 0 if every cell of every notebook ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(FOLDER.glob("*.ipynb")))
    failed = False
    for path in parser.parse_args().notebooks:
        begin = perf_counter()
        try:
            save(path.resolve())
            print(f"{path.name}: saved after {perf_counter() - begin:.1f} s", flush=True)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            print(f"{path.name}: not saved\n\n{error}", flush=True)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
