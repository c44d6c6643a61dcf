//! `sqlstreams crd`

use std::path::PathBuf;

use clap::Args;
use kube::ResourceExt as _;

use super::Failure;
use super::output::print;
use crate::api;

/// Print the CustomResourceDefinitions as YAML
#[derive(Debug, Args)]
pub(super) struct Crd {
    /// Write each into a file of its own in this folder instead
    #[arg(long, value_name = "FOLDER")]
    output_folder: Option<PathBuf>,
}

impl Crd {
    pub(super) fn run(&self) -> Result<(), Failure> {
        for crd in api::crds() {
            let yaml = serde_yaml::to_string(&crd)?;
            match &self.output_folder {
                Some(folder) => {
                    std::fs::create_dir_all(folder)?;
                    let path = folder.join(format!("{}.yaml", crd.name_any()));
                    std::fs::write(&path, yaml).map_err(|error| format!("{}: {error}", path.display()))?;
                }
                None => print(&format!("---\n{yaml}"))?,
            }
        }
        Ok(())
    }
}
