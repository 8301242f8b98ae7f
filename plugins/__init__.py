"""The bundled strategies, one file each. They import elasticd.api and nothing else of elasticd."""
