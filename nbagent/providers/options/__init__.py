"""Request options that mean the same for every vendor."""
