"""What an agent did, as pandas DataFrames inside the kernel: no server, nothing to switch on."""
