"""What ``mainstem bench`` measures."""
