"""Share groups (KIP-932): sessions and acknowledgements."""
