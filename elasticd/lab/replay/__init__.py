"""`elasticd replay`: decisions of a journal, made again."""
