"""Programs in other languages, and the packages of the image."""
