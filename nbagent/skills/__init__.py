"""Skills: folders of instructions, files and Python entries, as tools of an agent."""
