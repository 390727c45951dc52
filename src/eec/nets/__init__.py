"""Networks: the classifiers `D` and the autoencoders."""
