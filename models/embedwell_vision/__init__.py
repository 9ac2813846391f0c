"""Models of images, of texts with images and of pages.

A process imports it for such a model or for the first image; `embedwell` and `embedwell_models`
only name it.
"""
