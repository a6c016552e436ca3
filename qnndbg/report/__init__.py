"""A recording's answer as text or JSON, one module a format. Formats what it is given; computes nothing."""
