"""Evidence before a version serves: a second engine answers generated requests, too."""
