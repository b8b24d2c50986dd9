"""A rehearsal: what Kafka's controller would do if operators did this, step by step, from a cluster's views."""
