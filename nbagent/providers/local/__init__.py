"""A model on this machine, downloaded and served by llama.cpp on loopback."""
