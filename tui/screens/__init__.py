"""The screens: each owns the workers that call the store, and hands down what they bring."""
