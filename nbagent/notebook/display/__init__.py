"""How a run looks in a cell: the answer, tool calls, approval questions, plots."""
