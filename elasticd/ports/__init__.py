"""What the rest of elasticd may ask of the world: protocols only. Adapters are in cluster/ and sources/."""
