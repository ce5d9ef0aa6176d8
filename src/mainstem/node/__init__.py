"""The composition root: builds a log and a broker from one configuration, and closes them."""
