"""A model on this machine: downloaded, served by llama.cpp on loopback."""
