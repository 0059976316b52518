"""Grid worlds that an agent sees a part of: what can be reached without the mission, and agents that learn."""
