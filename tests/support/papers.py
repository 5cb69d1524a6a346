"""Small PDFs."""

import io

import matplotlib.pyplot as plt
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure


def pdf(*pages: str) -> bytes:
    file = io.BytesIO()
    with plt.rc_context({"pdf.fonttype": 42}), PdfPages(file) as made:
        for text in pages:
            figure = Figure()
            figure.text(0.1, 0.5, text)
            made.savefig(figure)
    return file.getvalue()
