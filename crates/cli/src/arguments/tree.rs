//! Arguments put together: every one at its place in one object, in the order in which they were given.

use serde_json::Value;

/// One thing that was given, and where it belongs.
pub(super) struct Argument<'a> {
    pub(super) path: Vec<&'a str>,
    pub(super) json: String,
    /// It is one of a list.
    pub(super) listed: bool,
}

/// What was given so far.
#[derive(Default)]
pub(super) struct ArgumentTree<'a>(Vec<(&'a str, TreeNode<'a>)>);

enum TreeNode<'a> {
    Leaf(String),
    List(Vec<String>),
    Tree(ArgumentTree<'a>),
}

impl<'a> ArgumentTree<'a> {
    pub(super) fn put(&mut self, argument: Argument<'a>) -> Result<(), String> {
        let Argument { path, json, listed } = argument;
        let twice = || format!("`{}` is given twice", path.join("."));
        let Some((last, way)) = path.split_last() else { return Ok(()) };
        let mut tree = self;
        for name in way {
            let at = tree.place(name);
            if at == tree.0.len() {
                tree.0.push((name, TreeNode::Tree(ArgumentTree::default())));
            }
            tree = match &mut tree.0[at].1 {
                TreeNode::Tree(inner) => inner,
                TreeNode::Leaf(_) | TreeNode::List(_) => return Err(twice()),
            };
        }
        let at = tree.place(last);
        match tree.0.get_mut(at).map(|(_, node)| node) {
            None if listed => tree.0.push((last, TreeNode::List(vec![json]))),
            None => tree.0.push((last, TreeNode::Leaf(json))),
            Some(TreeNode::List(values)) if listed => values.push(json),
            Some(_) => return Err(twice()),
        }
        Ok(())
    }

    /// Where a name is, or would be.
    fn place(&self, name: &str) -> usize {
        self.0.iter().position(|(known, _)| *known == name).unwrap_or(self.0.len())
    }

    pub(super) fn json(&self) -> String {
        let member = |(name, node): &(&str, TreeNode<'_>)| {
            let value = match node {
                TreeNode::Leaf(json) => json.clone(),
                TreeNode::List(values) => format!("[{}]", values.join(",")),
                TreeNode::Tree(tree) => tree.json(),
            };
            format!("{}:{value}", Value::from(*name))
        };
        format!("{{{}}}", self.0.iter().map(member).collect::<Vec<_>>().join(","))
    }
}
