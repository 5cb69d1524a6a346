"""The name of the cell that asked, as safe HTML."""

from nbagent.notebook.display.cell_link import cell_link


def test_a_cell_is_named_and_its_id_is_an_attribute_only():
    run = {"source": "cell", "execution_count": 5, "cell_id": '"><script>alert(1)</script>'}
    assert cell_link(run) == (
        '<small data-nbagent-asked-in="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;">cell [5]</small>'
    )


def test_a_panel_is_not_named():
    assert cell_link({"source": "panel", "execution_count": None, "cell_id": None}) == cell_link({}) == ""
