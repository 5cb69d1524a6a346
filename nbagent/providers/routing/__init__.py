"""Who answers: which of several models (`candidates`), or a function in place of a model (`routes`)."""
