"""Full-text search over all native sessions."""
