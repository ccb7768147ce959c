"""The methods of `Tensor`: a class for each family. They call the functions of the folders below."""
