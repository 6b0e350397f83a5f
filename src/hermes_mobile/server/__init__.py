"""The Trio server: connections, the sessions that outlive them, and what the operator decides."""
