//! Writes small GGUF files, sound or hostile: nothing is checked.

/// A GGUF file in the making.
#[derive(Clone, Debug)]
pub struct Builder {
    /// Written as the version.
    pub version: u32,
    /// Written as the number of keys instead of the true one.
    pub claimed_keys: Option<u64>,
    /// Written as the number of tensors instead of the true one.
    pub claimed_tensors: Option<u64>,
    /// What offsets are padded to.
    pub alignment: usize,
    /// Each key's bytes.
    pub keys: Vec<Vec<u8>>,
    /// Each tensor's line.
    pub tensors: Vec<Vec<u8>>,
    /// The tensors' bytes.
    pub data: Vec<u8>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            version: 3,
            claimed_keys: None,
            claimed_tensors: None,
            alignment: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }
}

/// A length and the bytes.
pub fn counted(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

/// An array's value: the elements' type, their number, their bytes.
pub fn array(kind: u32, count: u64, elements: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), elements].concat()
}

impl Builder {
    /// With `general.architecture`.
    pub fn of(architecture: &str) -> Builder {
        Builder::default().str("general.architecture", architecture)
    }
    /// A key of any type, its value as bytes.
    pub fn key(mut self, key: &str, kind: u32, value: &[u8]) -> Builder {
        self.keys.push([&counted(key.as_bytes())[..], &kind.to_le_bytes(), value].concat());
        self
    }
    /// A string.
    pub fn str(self, key: &str, value: &str) -> Builder {
        self.key(key, 8, &counted(value.as_bytes()))
    }
    /// A u32.
    pub fn u32(self, key: &str, value: u32) -> Builder {
        self.key(key, 4, &value.to_le_bytes())
    }
    /// An f32.
    pub fn f32(self, key: &str, value: f32) -> Builder {
        self.key(key, 6, &value.to_le_bytes())
    }
    /// An array of strings.
    pub fn strs(self, key: &str, values: &[&str]) -> Builder {
        let bytes: Vec<u8> = values.iter().flat_map(|v| counted(v.as_bytes())).collect();
        self.key(key, 9, &array(8, values.len() as u64, &bytes))
    }
    /// A tensor with its data; `axes` in GGUF's order, innermost first.
    pub fn tensor(mut self, name: &str, axes: &[u64], kind: u32, data: &[u8]) -> Builder {
        self.data.resize(self.data.len().next_multiple_of(self.alignment), 0);
        let offset = self.data.len() as u64;
        self.data.extend_from_slice(data);
        self.line(name, axes.len() as u32, axes, kind, offset)
    }
    /// A line of the tensor list alone.
    pub fn line(mut self, name: &str, count: u32, axes: &[u64], kind: u32, offset: u64) -> Builder {
        let mut line = counted(name.as_bytes());
        line.extend(count.to_le_bytes());
        line.extend(axes.iter().flat_map(|axis| axis.to_le_bytes()));
        line.extend(kind.to_le_bytes());
        line.extend(offset.to_le_bytes());
        self.tensors.push(line);
        self
    }
    /// The file.
    pub fn build(&self) -> Vec<u8> {
        let tensors = self.claimed_tensors.unwrap_or(self.tensors.len() as u64);
        let keys = self.claimed_keys.unwrap_or(self.keys.len() as u64);
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(tensors.to_le_bytes());
        out.extend(keys.to_le_bytes());
        out.extend(self.keys.concat());
        out.extend(self.tensors.concat());
        if !self.data.is_empty() {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
        }
        out.extend_from_slice(&self.data);
        out
    }
}
