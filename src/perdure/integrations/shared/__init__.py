"""What the integrations have in common. Users import none of it but by way of ``perdure.integrations``."""
