"""Commands; every one speaks the Stem interface."""
