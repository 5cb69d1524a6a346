"""What the tests share: servers, kernels, vendors and agents to test with."""
