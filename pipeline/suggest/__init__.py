"""`suggest-policy`: what holds for the records of a topic, as a configuration.

Every summary here is a commutative monoid: it adds one thing at a time, two of them merge in any order to the same one,
and each has limits that depend on what was seen, not on the order in which it was.
"""
