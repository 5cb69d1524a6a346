"""Skills: folders of instructions, files and Python entries that others wrote, as tools of an agent."""
