module attributes {sw.a = array<"llama", sw.b = 1} {}
