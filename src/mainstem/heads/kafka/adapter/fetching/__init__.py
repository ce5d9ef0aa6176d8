"""What Fetch and its neighbours share: fetch sessions, leader epochs."""
