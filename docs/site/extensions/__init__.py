"""Extensions of Sphinx that let the repository's own pages be the site."""
