"""Does a server speak protocol v1? The wire vectors and scenarios, played against any of them.

Nothing here knows how this project's server works: a scenario sees the wire and the rules, and a
server of somebody else is held to the same.
"""
