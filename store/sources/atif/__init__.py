"""This package reads trajectories in the Agent Trajectory Interchange Format."""
