"""What the tests share: servers, kernels, providers and agents to test with."""
