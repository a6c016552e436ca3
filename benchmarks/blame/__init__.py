"""How often the verdict names the right class and culprit: seeded faults, and registries of real cases."""
