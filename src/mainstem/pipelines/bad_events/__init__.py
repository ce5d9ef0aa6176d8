"""Events that cannot be decoded or processed: counted, found by bisection, dead-lettered."""
