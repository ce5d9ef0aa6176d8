"""Who answers: one module for each kind of thing, with a table ``ROUTES`` of its addresses."""
