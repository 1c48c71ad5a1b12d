"""Policies applied to Produce requests: rules, validation, rejections."""
